# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Layers of v2.3 to 4.x, each with a use of all its parameters, in Python and in JSON."""

#: Layer -> its use in a network: bottoms are shapes of a sample, (width) or (slots, width).
LAYERS = {
    "Add": "net(L.Add, (4,), (4,))",
    "BatchNorm": "net(L.BatchNorm, (4,), factor=0.9, eps=1e-4, gamma_init_type=I.Uniform, "
    "beta_init_type=I.Zero)",
    "BinaryCrossEntropyLoss": "loss(L.BinaryCrossEntropyLoss, 1, 1)",
    "Cast": "net(L.Cast, (4,))",
    "Concat": "net(L.Concat, (4,), (2,))",
    "Concat, axis 2 of three": "net(L.Concat, (3, 4), (3, 4), axis=2)",
    "CrossEntropyLoss": "loss(L.CrossEntropyLoss, 2, 1)",
    "DotProduct": "net(L.DotProduct, (4,), (4,))",
    "Dropout": "net(L.Dropout, (4,), dropout_rate=0.3)",
    "ELU": "net(L.ELU, (4,), elu_alpha=0.5)",
    "ElementwiseMultiply": "net(L.ElementwiseMultiply, (4,), (4,))",
    "FmOrder2": "net(L.FmOrder2, (8,), out_dim=4)",
    "FusedInnerProduct": "net(L.FusedInnerProduct, (8,), num_output=4, "
    "pos_type=hugectr.FcPosition_t.Non, act_type=hugectr.Activation_t.Relu)",
    "FusedInnerProduct, Isolated": "net(L.FusedInnerProduct, (8,), num_output=4, "
    "pos_type=hugectr.FcPosition_t.Isolated, act_type=hugectr.Activation_t.Non)",
    "FusedInnerProduct, Head of two bottoms, Body and Tail": "stack()",
    "FusedReshapeConcat": "net(L.FusedReshapeConcat, (3, 4), (3, 4), tops=2)",
    "FusedReshapeConcatGeneral": "net(L.FusedReshapeConcatGeneral, (3, 4), (3, 4))",
    "GRU": "net(L.GRU, (12,), num_output=4, batchsize=64, SeqLength=3, vector_size=4)",
    "GRU, a row a step": "net(L.GRU, (4,), num_output=4, batchsize=64, SeqLength=2, vector_size=4)",
    "Gather": "net(L.Gather, (4,), indices=list(range(64)))",
    "InnerProduct, three dimensions": "net(L.InnerProduct, (3, 4), num_output=2)",
    "BatchNorm, three dimensions": "net(L.BatchNorm, (3, 4))",
    "InnerProduct": "net(L.InnerProduct, (4,), num_output=2, weight_init_type=I.XavierNorm, "
    "bias_init_type=I.Zero)",
    "Interaction": "net(L.Interaction, (4,), (3, 4))",
    "Interaction, two tops": "stack()",
    "LayerNorm": "net(L.LayerNorm, (4,), eps=1e-5)",
    "MLP": "net(L.MLP, (4,), num_outputs=[4, 2], act_type=hugectr.Activation_t.Relu, use_bias=True)",
    "MatrixMultiply": "net(L.MatrixMultiply, (3, 4), (4, 2))",
    "MultiCross": "net(L.MultiCross, (4,), num_layers=2, weight_init_type=I.Uniform)",
    "MultiCross v2": "net(L.MultiCross, (4,), num_layers=2, projection_dim=2)",
    "MultiCrossEntropyLoss": "loss(L.MultiCrossEntropyLoss, 2, 2, target_weight_vec=[0.5, 0.5])",
    "MultiHeadAttention": "net(L.MultiHeadAttention, (3, 4), (3, 4), (3, 4), num_attention_heads=2)",
    "MultiHeadAttention, mask": "net(L.MultiHeadAttention, (3, 4), (3, 4), (3, 4), 'mask', "
    "num_attention_heads=2)",
    "MultiHeadAttention of 4-D inputs": "net(L.MultiHeadAttention, (2, 3, 4), (2, 5, 4), (2, 5, 4), "
    "num_attention_heads=2)",
    "Multiply": "net(L.Multiply, (4,), weight_dims=[4, 2])",
    "PReLU_Dice": "net(L.PReLU_Dice, (4,), elu_alpha=0.2, eps=1e-8)",
    "ReLU": "net(L.ReLU, (4,))",
    "ReLUHalf": "net(L.ReLUHalf, (4,))",
    "ReduceMean": "net(L.ReduceMean, (3, 4), axis=1)",
    "ReduceSum, axis 2": "net(L.ReduceSum, (3, 4), axis=2)",
    "ReduceSum": "net(L.ReduceSum, (3, 4), axis=1)",
    "Reshape": "net(L.Reshape, (3, 4), leading_dim=12)",
    "Reshape, no size": "net(L.Reshape, (3, 4))",
    "Reshape, leading_dim of 0": "net(L.Reshape, (3, 4), leading_dim=0)",
    "Reshape, time_step": "net(L.Reshape, (12,), leading_dim=4, time_step=3)",
    "Reshape, selected": "net(L.Reshape, (3, 4), selected=True, selected_slots=[0, 2])",
    "Reshape, shape": "net(L.Reshape, (12,), shape=[-1, 3, 4])",
    "Scale": "net(L.Scale, (4,), axis=0, factor=2)",
    "Scale, rows": "net(L.Scale, (4,), axis=1, factor=2.0)",
    "Select": "net(L.Select, (3, 4), dim=1, index=[0, 2])",
    "SequenceMask": "net(L.SequenceMask, 'length0', 'length1', max_sequence_len_from=3, "
    "max_sequence_len_to=3)",
    "Sigmoid": "net(L.Sigmoid, (4,))",
    "Slice": "net(L.Slice, (4,), tops=2, ranges=[(0, 2), (2, 4)])",
    "Softmax": "net(L.Softmax, (4,))",
    "Sub": "net(L.Sub, (4,), (4,))",
    "WeightMultiply": "net(L.WeightMultiply, (4,), weight_dims=[4, 2])",
    "regulariser of a loss": "loss(L.BinaryCrossEntropyLoss, 1, 1, use_regularizer=True, "
    "regularizer_type=hugectr.Regularizer_t.L2, **{'lambda': 0.1})",
}
#: Layer -> bottoms, tops, keys beside name, type, bottom and top.
JSON_LAYERS = {
    **dict.fromkeys(("Add", "DotProduct", "ElementwiseMultiply", "Sub"), ("2, 1", "")),
    **dict.fromkeys(("FusedReshapeConcatGeneral", "MatrixMultiply", "Interaction"), ("2, 1", "")),
    **dict.fromkeys(("Cast", "ReLU", "Sigmoid", "Softmax"), ("1, 1", "")),
    "FusedReshapeConcat": ("2, 2", ""),
    "BatchNorm": (
        "1, 1",
        "bn_param={'factor': 0.9, 'eps': 1e-4, 'gamma_init': 'Uniform', 'beta_init': 'Zero'}",
    ),
    "BinaryCrossEntropyLoss": ("2, 1", "regularizer='L2', **{'lambda': 0.1}"),
    "Concat": ("2, 1", "axis=1"),
    "CrossEntropyLoss": ("2, 1", "regularizer='L1', **{'lambda': 0.1}"),
    "Dropout": ("1, 1", "rate=0.5"),
    "ELU": ("1, 1", "elu_param={'alpha': 0.5}"),
    "FmOrder2": ("1, 1", "out_dim=2"),
    "FusedInnerProduct": (
        "1, 1",
        "fc_param={'num_output': 4, 'weight_init': 'XavierNorm', "
        "'bias_init': 'Zero'}, position='None', activation='Relu'",
    ),
    **{
        f"FusedInnerProduct ({position})": (
            "1, 1",
            f"fc_param={{'num_output': 4}}, position='{position}', activation='None'",
        )
        for position in ("Head", "Body", "Tail", "Isolated")
    },
    "LayerNorm": ("1, 1", "ln_param={'eps': 1e-5, 'gamma_init': 'Uniform', 'beta_init': 'Zero'}"),
    "MLP": (
        "1, 1",
        "mlp_param={'num_outputs': [4, 2], 'activations': ['Relu', 'None'], 'biases': [True, False]}",
    ),
    "MultiHeadAttention": ("1, 1", "num_attention_heads=2, transpose_b=True"),
    "SequenceMask": ("2, 1", "max_sequence_len_from=3, max_sequence_len_to=3"),
    "Select": ("1, 1", "dim=1, index=[0, 2]"),
    "GRU": (
        "1, 1",
        "gru_param={'num_output': 4, 'batchsize': 64, 'SeqLength': 3, "
        "'vector_size': 4, 'weight_init': 'Uniform', 'bias_init': 'Zero'}",
    ),
    "Gather": ("1, 1", "indices=[0, 1]"),
    "InnerProduct": (
        "1, 1",
        "fc_param={'num_output': 4, 'weight_init': 'XavierUniform', 'bias_init': 'Zero'}",
    ),
    "MultiCross": (
        "1, 1",
        "mc_param={'num_layers': 2, 'weight_init': 'Uniform', 'bias_init': 'Zero'}",
    ),
    "MultiCross (v2)": ("1, 1", "mc_param={'num_layers': 2, 'projection_dim': 4}"),
    "MultiCrossEntropyLoss": (
        "2, 1",
        "target_weight=[0.5, 0.5], regularizer='L1', **{'lambda': 0.1}",
    ),
    "Multiply (v2.3)": ("1, 1", "weight_dims=[4, 2], weight_init='Uniform'"),
    "PReLU_Dice": ("1, 1", "prelu_dice_param={'alpha': 0.2, 'eps': 1e-8}"),
    "PReLU_Dice (elu_alpha)": ("1, 1", "prelu_dice_param={'elu_alpha': 0.2, 'eps': 1e-8}"),
    "ReduceMean": ("1, 1", "axis=1"),
    "ReduceSum": ("1, 1", "axis=1"),
    "Reshape": ("1, 1", "leading_dim=4, time_step=3"),
    "Reshape (selected)": ("1, 1", "selected=[0, 1]"),
    "Reshape (shape)": ("1, 1", "shape=[-1, 4]"),
    "Scale": ("1, 1", "scale_param={'axis': 0, 'factor': 2}"),
    "Slice": ("1, 2", "ranges=[[0, 1], [1, 2]]"),
    "WeightMultiply": ("1, 1", "weight_dims=[4, 2], weight_init='Uniform'"),
}
